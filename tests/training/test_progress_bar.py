"""What the line on the terminal says."""

import io

from spacy_attention.training.progress_bar import ProgressBar, without_bars


class Terminal(io.StringIO):
    def isatty(self):
        return True


def infos(n, *, docs=32, pieces=700):
    return [{"docs": docs * i, "pieces": pieces * i, "update_seconds": 0.5 * i} for i in range(1, n + 1)]


def shown(max_steps, *, begin=0, n=3):
    terminal = Terminal()
    bar = ProgressBar(max_steps, begin=begin, file=terminal)
    for info in infos(n):
        bar.add_step(info)
    bar.bar.refresh()
    bar.close()
    return terminal.getvalue().split("\r")


def test_speeds_and_time_left():
    last = [line for line in shown(9) if "step 3/10" in line][-1]
    assert "30%" in last
    assert "64 docs/s, 1,400 pieces/s" in last
    assert " left" in last


def test_a_resumed_training_and_one_without_end():
    assert any("step 8/10" in line for line in shown(9, begin=5))
    last = [line for line in shown(0) if "step 3 " in line][-1]
    assert "64 docs/s" in last
    assert "left" not in last


def test_nothing_where_nobody_looks():
    file_ = io.StringIO()
    bar = ProgressBar(9, begin=0, file=file_)
    for info in infos(3):
        bar.add_step(info)
    bar.close()
    assert file_.getvalue() == ""


def test_bars_of_loggers_are_left_out():
    logger = {"@loggers": "a", "progress_bar": "eval", "logger1": {"@loggers": "b", "progress_bar": True, "console_output": True}}
    without_bars(logger)
    assert logger == {"@loggers": "a", "logger1": {"@loggers": "b", "console_output": True}}
