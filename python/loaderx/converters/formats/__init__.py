"""The formats that `convert` knows, one module each (`finding.MODULES`)."""
