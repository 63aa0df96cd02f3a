"""Completions that the shell asks for: names of corpora."""


def corpora(incomplete: str) -> list[str]:
    """Names of corpora; those that are read from a folder end with the colon before its path."""
    from whispertide_lab.evaluation.corpora import MADE, NAMES, READ

    return [name for name in (*MADE, *NAMES, *(f"{name}:" for name in READ)) if name.startswith(incomplete)]
