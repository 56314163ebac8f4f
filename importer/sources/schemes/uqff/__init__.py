"""The layers of UQFF, which describe themselves."""
