"""Real KCL fleets against the stand-in: `make interop`. README.md tells how. `make test` runs only the small tests
here."""
