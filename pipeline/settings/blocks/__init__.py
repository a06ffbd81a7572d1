"""The blocks of the settings, one a module: `parse`, `kcl`, `aws` and the others."""
