"""Reports for people and for machines. This package presents verdicts and never makes them."""
