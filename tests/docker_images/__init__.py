"""Images that the tests of Docker use, made of the running system's own files: nothing is pulled.

`python -m tests.docker_images` prints the name of the image with torch and makes it where it is missing.
"""
