"""`OPTIONS`: every option that `chaoskit run` has, for tests of texts that name some."""

from chaoskit.cli import main


def _options():
    parser = main.make_parser()
    (commands,) = (action.choices for action in parser._actions if "run" in (action.choices or {}))
    return {option for action in commands["run"]._actions for option in action.option_strings}


OPTIONS = _options()
