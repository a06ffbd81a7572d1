"""Rules for settings whose values are right one by one but may not fit together. `general` checks all of them."""
