"""From rows to what the API answers with."""
