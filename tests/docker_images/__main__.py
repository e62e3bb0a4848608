"""Print the name of an image: `python -m tests.docker_images [KIND]`; `--list` prints the kinds."""

import sys

from tests.docker_images.images import IMAGES, image

if __name__ == "__main__":
    kind = sys.argv[1] if len(sys.argv) > 1 else "torch"
    if kind in IMAGES:
        print(image(kind))
    else:
        print("\n".join(IMAGES), file=sys.stdout if kind == "--list" else sys.stderr)
        sys.exit(0 if kind == "--list" else 2)
