"""The rules that settings must keep which are right one by one. `general` asks all of them."""
