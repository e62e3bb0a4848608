"""From the results of many experiments to the problems of one job: one cause, one problem."""
