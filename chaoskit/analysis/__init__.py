"""From events to facts: pure functions of records, which start nothing and ask no clock."""
