#!/bin/sh
# report.png of the README, from a demo, and ladder.png, from the example of the README:
# docs/images/make.sh [FOLDER, as `synthscore demo -o` wrote it]
# Needs chromium, and Pillow (which comes with matplotlib).
set -eu
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT
if [ $# -eq 0 ]; then synthscore demo -o "$work/demo"; fi
synthscore report "${1:-$work/demo}" --min-score 4 --title "Scores of the demo" -o "$work/report.html"

# The three texts of the README's example, on a ladder that a language model wrote
mkdir "$work/example"
cp -r "$here/../../data/references/generated/own" "$work/example/ladders"
python - "$here/../../README.md" "$work/example/targets.jsonl" << 'END'
import json, re, sys

page = open(sys.argv[1], encoding="utf-8").read()
texts = re.findall(r'^    "(good|clumsy|salad)": "(.*)",$', page, re.MULTILINE)
with open(sys.argv[2], "w", encoding="utf-8") as file:
    for name, text in texts:
        file.write(json.dumps({"id": name, "context_id": "sum-01", "system": name, "text": text}) + "\n")
END
synthscore score "$work/example/targets.jsonl" --references "$work/example/ladders" --model nano --task summarization -a fluency --verdicts \
    --store none -o "$work/example/scores.jsonl"
synthscore report "$work/example" -o "$work/example.html"

# The page with its ladder alone
awk '/<header>/{skip=1} /<section /{skip=!/"ladder"/} /<footer>/{skip=1} !skip{print} /<\/(header|section)>/{skip=0}' \
    "$work/example.html" | sed 's/<p class="intro"[^>]*>[^<]*<\/p>//' > "$work/ladder.html"

picture() { # NAME HEIGHT: cropped to what is on the page, with a border
    chromium --headless --no-sandbox --disable-gpu --hide-scrollbars --disable-background-networking --no-first-run \
        --user-data-dir="$work/profile" --force-device-scale-factor=1.5 --window-size="1140,$2" \
        --screenshot="$work/$1.png" "file://$work/$1.html" 2> "$work/log"
    python - "$work/$1.png" "$here/$1.png" << 'END'
import sys
from PIL import Image, ImageChops, ImageOps

page = Image.open(sys.argv[1]).convert("RGB")
page = page.crop(ImageChops.difference(page, Image.new("RGB", page.size, "white")).getbbox())
ImageOps.expand(page, 24, "white").quantize(64).save(sys.argv[2], optimize=True)
END
    ls -l "$here/$1.png"
}
picture report 888
picture ladder 2000
