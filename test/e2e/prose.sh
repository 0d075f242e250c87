#!/usr/bin/env bash
# Part of Sluice, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
# User pages have no sentence over 40 words, and every link between them has a target. Comments have no more
# advised-against wording than allowed, and folders include one another in one direction.
. "$(dirname "${BASH_SOURCE[0]}")/support/checks.bash"

# shellcheck disable=SC2317 # called by `exits`
check_page() {
  python3 - "$root" "$@" << 'PYTHON'
import re, sys
from pathlib import Path

root, bad = Path(sys.argv[1]), 0
for name in sys.argv[2:]:
    path = root / name
    text = re.sub(r"^( *)```.*?^ *```", "\n\n", path.read_text(), flags=re.S | re.M)
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text):
        if not target.startswith("http") and not (path.parent / target).exists():
            print(f"{name}: a link to {target}, which does not exist", file=sys.stderr)
            bad = 1
    text = re.sub(r"^    .*$", "", text, flags=re.M)
    text = re.sub(r"\]\([^)]*\)", "]", text)
    # Headings, table cells and list items end a sentence, as blank lines do.
    text = re.sub(r"^#.*$|^ *([-*]|[0-9]+\.) |\|", "\n\n", text, flags=re.M)
    for sentence in re.split(r"\n\s*\n|(?<=[.?!])[)\"*`]*\s+", text):
        words = [word for word in sentence.split() if re.search(r"\w", word)]
        if len(words) > 40:
            print(f"{name}: {len(words)} words: {' '.join(sentence.split())[:150]}", file=sys.stderr)
            bad = 1
sys.exit(bad)
PYTHON
}

for page in README.md CONTRIBUTING.md models/README.md $(cd "$root" && printf '%s\n' docs/*.md | grep -vx docs/passes.md); do
  succeeds "$page" check_page "$page"
done
# sites ROOT: files with attributes by name, and the number of places in each.
sites() {
  (cd "$1" && grep -rnE '(^|[^A-Za-z])((get|set|has|remove)(Inherent|Discardable)?Attr|(get|has)AttrOfType<[^>]+>)\(($|[^)])' --include='*.cpp' --include='*.h' \
    --include='*.td' lib include tools | grep -v AttrHelper | cut -d: -f1 | sort | uniq -c | awk '{ print $2, $1 }')
}
# The places listed with a reason in docs/architecture.md.
listed() { awk -F'|' '/^## / { inside = /Attributes by name/ } inside && $3 ~ /^ [0-9]+ $/ { gsub(/[` ]/, ""); print $2, $3 }' "$root/docs/architecture.md" | sort; }
sites "$root" > "$work/sites"
listed > "$work/listed"
succeeds "attributes by name are listed in docs/architecture.md" diff "$work/listed" "$work/sites"
# shellcheck disable=SC2016 # awk's fields
exits 0 "fewer than 20 places use attributes by name" awk '{ all += $2 } END { exit all >= 20 }' "$work/sites"
mkdir -p "$work/more/lib" "$work/more/include" "$work/more/tools"
printf 'op->setAttr("a", b);\nop->getAttrOfType<A>(\n"a");\nop.getAttr();\nHelper::AAttrHelper(c).getAttr(op);\n' > "$work/more/lib/a.cpp"
sites "$work/more" > "$work/found"
succeeds "a new place is reported" grep -qx 'lib/a.cpp 2' "$work/found"
succeeds "comments and pages have no more advised-against wording than allowed" "$root/scripts/wording.py" --check
succeeds "a source's own header declares its functions" "$root/scripts/headers.py" --check
succeeds "folders include one another in one direction" "$root/scripts/check_includes.py"
mkdir -p "$work/tree/lib/A" "$work/tree/include/sluice/B" "$work/tree/lib/Support"
echo '#include "sluice/B/B.h"' > "$work/tree/lib/A/A.h"
echo '#include "../../../lib/A/A.h"' > "$work/tree/include/sluice/B/B.h"
exits 1 "a cycle of includes is reported" "$root/scripts/check_includes.py" "$work/tree"
rm "$work/tree/lib/A/A.h"
succeeds "without the cycle, none is reported" "$root/scripts/check_includes.py" "$work/tree"
echo '#include "llvm/ADT/Twine.h"' > "$work/tree/lib/Support/Text.cpp"
exits 1 "a header of LLVM in lib/Support is reported" "$root/scripts/check_includes.py" "$work/tree"
printf 'a %.0s' {1..41} > "$work/long.md"
root=$work exits 1 "a sentence of 41 words is reported" check_page long.md
finish
