"""What maintains the pages: generated parts, and a hook for the site."""
