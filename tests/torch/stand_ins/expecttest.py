"""Debian has no expecttest, which torch.testing imports. Its comparison is all that the distributed suite could use."""

import unittest

ACCEPT = False  # torch.testing reads this


class TestCase(unittest.TestCase):
    longMessage = True

    def assertExpectedInline(self, actual, expect, skip=0):
        self.assertEqual(actual, expect)

    def assertExpectedRaisesInline(self, kind, callable_, expect, *args, **kwargs):
        with self.assertRaises(kind) as caught:
            callable_(*args, **kwargs)
        self.assertEqual(str(caught.exception), expect)
