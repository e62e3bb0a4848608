"""Suites: what came of many experiments of one session, kept when their runs are long gone."""
