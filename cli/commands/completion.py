"""`ingot completion`: the script that completes commands in a shell."""

from __future__ import annotations

from enum import StrEnum, unique
from typing import Annotated

import typer


@unique
class Shell(StrEnum):
    """A shell that has completion."""

    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    shell: Annotated[
        Shell, typer.Argument(metavar="SHELL", help="The shell: bash, zsh or fish.")
    ],
) -> None:
    """Print the script that completes commands, flags, models and types in a shell.

    Example: ingot completion bash
    """
    from cli.views.console import out

    out(_SCRIPTS[shell].strip("\n").split("\n"))


_BASH = r"""
# Completion of ingot for bash: eval "$(ingot completion bash)"
_ingot() {
    local line kind
    local -a found
    mapfile -t found < <(ingot __complete bash "$COMP_WORDBREAKS" \
        "${COMP_LINE:0:COMP_POINT}" 2>/dev/null)
    kind=${found[0]}
    COMPREPLY=("${found[@]:1}")
    if [[ $kind == files ]]; then
        compopt -o filenames 2>/dev/null
        local word=${COMP_WORDS[COMP_CWORD]}
        [[ $word == [=:] ]] && word=
        while IFS= read -r line; do
            COMPREPLY+=("$line")
        done < <(compgen -f -- "$word")
    elif [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F _ingot ingot
"""
_ZSH = r"""
#compdef ingot
# Completion of ingot for zsh: eval "$(ingot completion zsh)", or a file _ingot in $fpath
_ingot() {
    local kind
    local -a found
    found=("${(@f)$(ingot __complete zsh "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    kind=${found[1]}
    shift found
    (( $#found )) && _describe -V ingot found
    [[ $kind == files ]] && _files
    return 0
}
if [[ ${funcstack[1]} == _ingot ]]; then
    _ingot "$@"
else
    compdef _ingot ingot
fi
"""
_FISH = r"""
# Completion of ingot for fish: ingot completion fish | source
function __ingot_complete
    set -l before (commandline -opc)
    set -l current (commandline -ct)
    set -l found (ingot __complete fish $before[2..] "$current" 2>/dev/null)
    if test "$found[1]" = files
        __fish_complete_path "$current"
    end
    for one in $found[2..]
        echo $one
    end
end
complete -c ingot -f -a '(__ingot_complete)'
"""
_SCRIPTS = {Shell.BASH: _BASH, Shell.ZSH: _ZSH, Shell.FISH: _FISH}
