"""SVG pictures: each module computes a layout in pixels from facts that other packages provide."""
