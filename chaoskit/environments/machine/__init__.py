"""What environments on one Linux machine share: processes, gates, scratch directories, helper processes."""
