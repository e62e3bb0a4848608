"""Machine-readable reports: JSON, JUnit, and Markdown for CI."""
