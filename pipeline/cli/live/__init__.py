"""A view that draws itself again and again: `headrace status --watch`."""
