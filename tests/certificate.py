"""A certificate of localhost that nobody has to trust, made by openssl."""

from __future__ import annotations

import subprocess
from pathlib import Path

_MADE = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost")
_NAMES = ("-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1")


def a_certificate(folder: Path) -> tuple[Path, Path]:
    """The files of a certificate and its key, which are made in `folder`."""
    certificate, key = folder / "tls-certificate.pem", folder / "tls-key.pem"
    subprocess.run([*_MADE, *_NAMES, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    return certificate, key


def trusted_by_java(certificate: Path, password: str) -> Path:
    """A file for the option javax.net.ssl.trustStore of a JVM, which then trusts this certificate and no other."""
    trusted = certificate.with_suffix(".p12")
    keytool = ("keytool", "-importcert", "-noprompt", "-alias", "local", "-storepass", password)
    subprocess.run([*keytool, "-file", certificate, "-keystore", trusted], check=True, capture_output=True)
    return trusted
