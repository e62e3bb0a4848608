"""The environment `docker`: nodes are containers of the job's own image, on a network of the run's own."""
