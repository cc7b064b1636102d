"""Numbers on the command line, whose errors are plain sentences: `'abc' is not a valid number`."""

import click


class Number(click.FloatRange):
    """A number within bounds."""

    name = "number"


class WholeNumber(click.IntRange):
    """A whole number within bounds."""

    name = "whole number"
