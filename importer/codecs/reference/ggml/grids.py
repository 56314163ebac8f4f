"""The grids of the types IQ1 to IQ3: facts of libggml, as sets of points.

A point is a row of numbers from a few levels, eight of three levels or four of eight. A grid
is sorted, the last number the most significant, so it is known by the set of its points: by a
bit for each number of as many digits as a point has numbers, to the base of the levels.
"""

from __future__ import annotations

import base64
import functools
import zlib
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

Grid = npt.NDArray[np.int8]
"""Points, of shape (points, numbers of a point)."""

_IQ1_LEVELS: Final = (-1, 0, 1)
_IQ2_LEVELS: Final = (8, 25, 43)
_IQ3_XXS_LEVELS: Final = (4, 12, 20, 28, 36, 44, 52, 62)
_IQ3_S_LEVELS: Final = (1, 3, 5, 7, 9, 11, 13, 15)

_IQ1: Final = (
    "eNotUkFLnEcYfneq4XVMZWM/QXJ696ux01kR6y3pZZFdWPRiQvIHPNm0SMk5TT4nu+mX2RRCILQ0l3EwyTgNq/FQ"
    "tp+wAU9WemjprQdpPYS6HgJeGgzEzK69zbzwvM/zvM9z7UJUN2zmMlY+c3dJ2/MoKarPR4rKlQsj/YYpSkcBlflA"
    "mnTL8wd+EGLg/r4yWAqoQprMRwGup/AHg4kMk6hO1ZlrWMlNbBvS4yDHnLe4v44oBAQu4QW5hPhj/CVztNu8Z5v+"
    "0s3DTralhlpxtvvn0EMWQ0xOZ1wxBDn7t/08pqKF5dKy1wLjXFA4omigUrhaN8g+dpeopuhqkGEJH81HTGLLqcRU"
    "GaGyi5aJnyTWw3sKKyXoKjQwcxkquU8VaCVxZSrqD5bFqXjGyEug4Re6KVy24t3XoDgyEbMaKKgmprMh/TY1srjz"
    "17NGY8k9DP8bDV0+K6laKwkt0dPObza26z+afx0DBtKlQIlpWCsyk6hpnrVb2btDa4oWNRcdCyvT7OzxamfvddFN"
    "fte+dXj83+2Xr77J9r54+8nJy/Hj4YN/dJz37aGax003qJon2djBnaRvYWLxyPHVIgTLuO+HgSnJn9Kv6t4DJcDC"
    "/eQjUIjwlfZ+iz1ta7PLki+/n/x98yCv8pN+T4z88aQPePcOhLkVUv5iFk/XzEAyCtousOWoHA5VeK56KXsS/ls+"
    "3Eu532C3NjlipmRjSAEtXtdLLe8TIK72d+IClruoAU0joVF3OXopE+BdVMFBb+E+pYqPhgi89XqjwbgMFCrxXKCA"
    "tZTFpj0oWqizuc1gefVN09MVsfizmXqVcBaacH0hFIl5X/Qdu2YsYp6MjkENnabMexVdOwOznuETyH9Y/j/l/lBp"
    "9fyIACBw8Yw6loGqDoiDCM7NVbrdcKynMB3DVPAShkmwzLoLc+8B4wUZaQ=="
)
_IQ2_XXS: Final = (
    "eNp1UkuqxDAMk8Hdq5B3Hwd6gG7m/ld5tvPt0BENpLHkSG4/f+XDq1ZouUAAaigwxA64afWEFLXbz718+LoBQVCq"
    "n5eSxPakiugoSjpNT6j4xkLlkEakmrdsKvaVVzQcEqXwcY6jlFtvHa9ytE5NdA8erHrVBlu7ptfiaQ4UTzR7t0+D"
    "9Mhgk18I792/MWkMozOpYEUGZTWnjKHk4pUeVVKiD+3yaLJ11MlR6vJsezlRkya9ZIuWJs+Vsrxm3zJ8I6bZP4Xa"
    "FM4G+dvYCpk35szlEWu/YcUTjjHsvjFmaK+qB/ijNp18T/Nl/wr9TfsHxl0VIw=="
)
_IQ2_XS: Final = (
    "eNpdUVuuhTAIHBL6j4nuhyb2vyZ2/1s5PFr13uYcxQLDzDDGuEarR6N7jN6qFMJ9iVYGEbqnDtoZlkIhZkArpNjL"
    "fqNsO5NA1bo8JYAFBDtigJd16QK0VEffvNELHLCRJGDcOCavsBSwVdr3Ft8MzBI/YyQguItPFR+YrVZ4Vig91ZxJ"
    "msCQSjFFFqbnQF6FMyWHrikZp8mrtADNKEt5SwnyPsOM0miHp4hoTq0xX7HOtDckM8rDMHs17BW3p+aFYCbtz+aG"
    "BpShy2TzehJuiNPq30xqNOkvCWeIZyg+If0x2t8iIbnQwY7bDyOfokOFu1z32/oVuavEmHEw5Vjp7gI+vAKcOd2I"
    "zVCwoLfAQE4LqnxJ7h+iL1v+XMoqbTQn0uOl7msKr70o/h/N4W2uYLIu79Po/gBOsClJ"
)
_IQ2_S: Final = (
    "eNptUl2KBiEMa0HfK+h9KozvCvb+V9m0OrvfsivD/MXEJGpmy4a1XPAyh9Xc6l4yLVEpeAwza3usaVZxAVJAq6Yp"
    "pM2cJcyaLT2AlIirZCEipW1rQbmtui2WsEqz9p4y1US+1ivoUAjWzIBAV1vJISY6EP4lcShBm/Zqq+fEhfbsmg9L"
    "aCXMz/QgxS/BAkpmUINcYMOXIGrxTSGOT9yYpnu1Vh9vI1+HvSWP7L7MthfV6UCzvw4hIPVAsBEstKF0IB8QbMGi"
    "P5Er4HetD0G65iMyICUE/BGMWiLJM1qGQ/VNuR2K20hOIF6fghIY3ex4n3JL4FPLO2KGahul7iKdaRzznbS0y8Iu"
    "F4+cfyKzQ/OKg5U5ZHDnVx3K2c/KMLms2JRQPAfAKf90WOQ7NiDh02sg9DEwGad3h46fCTlhJKkX/TCtK8h6O/yV"
    "Gdg1ylcNv5Ur35q+ALm8Vh4="
)
_IQ3_XXS: Final = (
    "eNpNUTEOwjAMPFuxVGUKQ/eKCfGKdGCHH0WdEK9g5Jn4nKZwVdUmPt+dk/llmoBLtrNpgcxqL2xYNlvgEExopeGy"
    "AckfwgsFeMBLimx5bgKYWhSzqa+QDKIVFeeu4jj5ChqqgRTblm/0xzX6nmKbNXGSntCb6DfRq7kbjTtyjSBQy66/"
    "hN+d+2xmUmVXQJrvrAzPhsIYUZoYzGd743mEKqQLVncbdJqUEUMGcbH932U9l6yoo4HjpLQ7QEI8ddpIhIPI7z1c"
    "tL8Nw3X9CxXSe8Mevst9ZNxL7bIcM/FIRlwNpv2O7piB+AIWuhT2"
)
_IQ3_S: Final = (
    "eNotUcFKw0AQfTPMwmZPuyHiNd1GqPmKrdSDeimC+DtpqdD2luIHiFYE+5PObpzDwLw3897b5Od1br+dOV3PD9Ej"
    "ytdDDGeHykbz6M0QaV9LxaAG9/YTySYHhoCvdEYAri/mGWuWp8AVGyzpHKRqSU7VNugiLRq4le4VlqE1Yq3dGW4z"
    "f3k5mt4Mt+bQ1aL8CW7De9Q33DihhC2qTuHOswxkQW9ZRC9bTmQJkF/p39ly7x0ItCLRqIpzONKxhbV3qioBbFrx"
    "CRYJJYaDaXOaIKOwHu6czGxUfMaWBiHvTMy8gR+y3Ee5EqiCRzaYgaxCEgSjJN8LS14gtkvdwY4GeG5tDZKUhXJ3"
    "KJUXm9K1+oxqAGx08Jn00gqR5+yipY9QsMLkm0MX/F9rhEnkBcIeC53rpb6Gi0eXc8T8kWhylcm7/IVJG/gDusYn"
    "IA=="
)


@functools.cache
def iq1() -> Grid:
    """Return the 2048 points of IQ1_S and IQ1_M."""
    return _grid(_IQ1, _IQ1_LEVELS, 8)


@functools.cache
def iq2_xxs() -> Grid:
    """Return the 256 points of IQ2_XXS."""
    return _grid(_IQ2_XXS, _IQ2_LEVELS, 8)


@functools.cache
def iq2_xs() -> Grid:
    """Return the 512 points of IQ2_XS."""
    return _grid(_IQ2_XS, _IQ2_LEVELS, 8)


@functools.cache
def iq2_s() -> Grid:
    """Return the 1024 points of IQ2_S."""
    return _grid(_IQ2_S, _IQ2_LEVELS, 8)


@functools.cache
def iq3_xxs() -> Grid:
    """Return the 256 points of IQ3_XXS."""
    return _grid(_IQ3_XXS, _IQ3_XXS_LEVELS, 4)


@functools.cache
def iq3_s() -> Grid:
    """Return the 512 points of IQ3_S."""
    return _grid(_IQ3_S, _IQ3_S_LEVELS, 4)


def _grid(packed: str, levels: Sequence[int], numbers: int) -> Grid:
    members = np.frombuffer(zlib.decompress(base64.b64decode(packed)), np.uint8)
    ranks = np.flatnonzero(np.unpackbits(members, bitorder="little"))
    digits = ranks[:, None] // len(levels) ** np.arange(numbers) % len(levels)
    return np.array(levels, np.int8).take(digits)
