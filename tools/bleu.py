#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""BLEU of translations against references, by sacrebleu.

    tessera translate ende.ini --translate.input=test.en > test.out
    tools/bleu.py test.de test.out

Both files hold one sequence a line. Text that is cut into words already (Moses' tokenizer, …) is
scored by --tokenize none. Prints the score and sacrebleu's signature, which names how it was made.
"""

import argparse
import json
import sys

try:
    import sacrebleu
except ImportError:
    sys.exit("bleu.py needs the Python package sacrebleu")


def lines_of(path):
    try:
        with open(0 if path == "-" else path, encoding="utf-8", newline="\n") as file:
            return [line.rstrip("\r\n") for line in file]
    except OSError as error:
        sys.exit(f"bleu.py: cannot read {path}: {error.strerror}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0],
                                     epilog=__doc__.split("\n\n", 1)[1],
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("reference", help="translations by people")
    parser.add_argument("translation", nargs="?", default="-", help="what is scored; -: input")
    parser.add_argument("--tokenize", default="13a", choices=["13a", "none", "intl", "char", "zh"],
                        help="how words are told apart (%(default)s)")
    parser.add_argument("--json", action="store_true", help="print an object")
    options = parser.parse_args()
    references, translations = lines_of(options.reference), lines_of(options.translation)
    if len(references) != len(translations) or not references:
        print(f"bleu.py: {len(translations)} translations of {len(references)} references; each "
              "line must have its reference", file=sys.stderr)
        return 2
    metric = sacrebleu.metrics.BLEU(tokenize=options.tokenize)
    score = metric.corpus_score(translations, [references])
    if options.json:
        print(json.dumps({"bleu": score.score, "brevity_penalty": score.bp,
                          "signature": str(metric.get_signature())}))
    else:
        print(f"{score}\n{metric.get_signature()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
