"""Every message of the source has a row in docs/developer/messages.md, with a test that sees it."""

from tests.messages import exists, messages, table

MOST_WITHOUT_A_TEST = 41  # not seen yet by a recorded run; may only fall


def test_each_message_has_a_row_and_each_row_a_message():
    rows = set(table())
    assert not messages() ^ rows, "run python -m tests.messages"


def test_each_row_names_a_test():
    tests = list(table().values())
    assert not [test for test in tests if test and not exists(test)]
    assert tests.count(None) <= MOST_WITHOUT_A_TEST
