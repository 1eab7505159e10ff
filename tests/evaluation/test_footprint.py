"""Memory and size of a pipeline, in a process of its own."""

import numpy
import spacy

from spacy_attention.evaluation.footprint import measure_footprint, size_on_disk


def test_memory_of_this_process_is_not_counted(tmp_path):
    """A child inherits the maximum that `getrusage` reports; the figures must not."""
    spacy.blank("en").to_disk(tmp_path / "blank")
    ballast = numpy.ones(800_000_000, dtype="uint8")
    found = measure_footprint(str(tmp_path / "blank"), ["one text"])
    assert 10 < found["load_peak_rss_mb"] < ballast.nbytes / 1e6
    assert 10 < found["peak_rss_mb"] < ballast.nbytes / 1e6


def test_size_adds_up_files_at_any_depth(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "a" / "one").write_bytes(b"12345")
    (tmp_path / "a" / "b" / "two").write_bytes(b"678")
    assert size_on_disk(str(tmp_path / "a")) == 8
