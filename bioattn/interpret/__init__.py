"""From attention to what each field looks at."""
