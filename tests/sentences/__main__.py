"""Writes the golden file anew: python -m tests.sentences. Read what has changed before you commit it."""

from tests.sentences.collect import as_text, sentences
from tests.sentences.test_sentences import GOLDEN

if __name__ == "__main__":
    GOLDEN.write_text(as_text(sentences()), encoding="utf-8")
    print(f"written: {GOLDEN}")
