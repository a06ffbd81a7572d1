"""Real KCL fleets against the stand-in: `make interop`. README.md tells how; nothing here runs with `make test` but the small tests."""
