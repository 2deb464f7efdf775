#!/usr/bin/env python3
"""Tests that owner.toml is the only place that decides names and addresses."""

import re
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import names  # noqa: E402
import owner  # noqa: E402
import renamed  # noqa: E402

HERE = owner.read()


def contents(folder):
    """Returns the bytes of each file by its path."""
    return {path: (folder / path).read_bytes() for path in names.listed(folder)}


class TheTree(unittest.TestCase):
    def test_it_has_the_names_of_the_file(self):
        self.assertEqual(names.differences(owner.ROOT, HERE), [])

    def test_only_the_file_contains_addresses_and_people(self):
        words = [re.escape(value) for key, value in HERE.choices.items()
                 if value and key in ("people.mail", *DESTINATIONS)]
        pattern = re.compile("|".join(words))
        for path in names.listed(owner.ROOT):
            text = names.text_of(owner.ROOT / path) or ""
            self.assertIsNone(pattern.search(text), f"{path} has an address of {owner.FILE}: read"
                                                    " it from there")


DESTINATIONS = [key for key in owner.FORMS if key.startswith("destinations.")]


class Renaming(unittest.TestCase):
    """In a copy of the checkout with other choices of the owner."""

    @classmethod
    def setUpClass(cls):
        cls.folder = Path(tempfile.mkdtemp())
        renamed.copy(owner.ROOT, cls.folder)
        cls.before = contents(cls.folder)
        cls.old = names.current(cls.folder)
        renamed.choose(cls.folder, renamed.SAMPLES)
        names.write(cls.folder, owner.read(cls.folder))

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.folder)

    def test_no_file_keeps_an_old_name(self):
        self.assertEqual(renamed.kept(self.folder, self.old), [])
        self.assertEqual(names.current(self.folder), renamed.SAMPLES)

    def test_pages_of_several_languages_have_the_name_of_each(self):
        """Before, the packages for pip and npm may have the same name."""
        page = (self.folder / "README.md").read_text(encoding="utf-8")
        for line in (f"import {{ Cache }} from '{renamed.SAMPLES['names.node']}';",
                     f"from {renamed.SAMPLES['names.python_module']} import Cache",
                     f'"{renamed.SAMPLES["names.go"]}"'):
            self.assertIn(line, page)

    def test_the_way_back_restores_each_byte(self):
        again = Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, again)
        renamed.copy(self.folder, again)
        renamed.choose(again, self.old)
        names.write(again, owner.read(again))
        after = contents(again)
        self.assertEqual(sorted(after), sorted(self.before))
        # Tests that rename a copy contain the new names before.
        samples = [name.encode() for name in renamed.SAMPLES.values()]
        changed = {path for path in after if after[path] != self.before[path]
                   and not any(name in self.before[path] for name in samples)}
        self.assertEqual(changed, set())

    def test_forms_without_a_rule_are_found(self):
        page = self.folder / "docs/stray.md"
        self.addCleanup(page.unlink)
        host = self.old["names.go"].partition("/")[0]
        for line in (f"https://{host}/other", f"x{self.old['names.python_module']}",
                     f"pie install {self.old['names.php']}", self.old["names.repository"] + "2",
                     f"npm i x{self.old['names.node']}"):
            page.write_text(line, encoding="utf-8")
            self.assertEqual(renamed.kept(self.folder, self.old), [f"docs/stray.md:1: {line}"])

    def test_a_second_run_changes_nothing(self):
        before = contents(self.folder)
        self.assertEqual(names.write(self.folder, owner.read(self.folder)), [])
        self.assertEqual(contents(self.folder), before)


class TheFile(unittest.TestCase):
    def test_a_choice_of_another_form_is_refused(self):
        text = (owner.ROOT / owner.FILE).read_text(encoding="utf-8")
        for key, value, reason in (
            ("go", "larder", "first element has a dot"),
            ("python", "Larder_Cache", "small letters"),
            ("python_module", "2larder", "underscores"),
            ("node", "@scope", "@SCOPE/NAME"),
            ("php", "larder", "VENDOR/PACKAGE"),
            ("repository", "http://host.org/x", "https address"),
            ("repository", "https://host.org/x.git", "without a final slash or .git"),
            ("image", "larder:1", "REGISTRY/NAME"),
            ("mail", "somewhere", "mail address"),
            ("signing_key", "1234", "fingerprint"),
        ):
            changed = re.sub(rf'(?m)^{key} = ".*"$', f'{key} = "{value}"', text)
            self.assertNotEqual(changed, text)
            with self.assertRaisesRegex(owner.Mistake, f"{key} is '{value}', expected .*{reason}"):
                owner.Owner(changed)

    def test_unknown_and_missing_choices_are_refused(self):
        text = (owner.ROOT / owner.FILE).read_text(encoding="utf-8")
        with self.assertRaisesRegex(owner.Mistake, "unknown .'people.phone'.*expected"):
            owner.Owner(text + 'phone = "1"\n')
        with self.assertRaisesRegex(owner.Mistake, "missing .'names.go'"):
            owner.Owner(re.sub(r"(?m)^go = .*\n", "", text))
        with self.assertRaisesRegex(owner.Mistake, "is not TOML"):
            owner.Owner("[names")

    def test_placeholders_are_not_chosen(self):
        text = (owner.ROOT / owner.FILE).read_text(encoding="utf-8")
        for value, chosen in (
            ("https://code.example/x", False), ("https://code.example.org/x", True),
            ("https://a.invalid/x", False), ("https://code.org/example", True),
        ):
            changed = re.sub(r'(?m)^repository = ".*"$', f'repository = "{value}"', text)
            self.assertEqual(owner.Owner(changed).is_chosen("names.repository"), chosen, value)


if __name__ == "__main__":
    unittest.main()
