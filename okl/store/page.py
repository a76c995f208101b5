"""The one self-contained page of a report: its frame and its looks. It may load nothing from anywhere."""

from __future__ import annotations

from string import Template

HEAD = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>$title</title>
<style>
:root {
  --ground: #f4f6f9; --card: #ffffff; --ink: #1c2430; --soft: #5a6676; --rule: #d8dee6; --mark: #1f6fb2;
  --bad: #8c2f17; --bad-ground: #fdeee8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --ground: #0f131a; --card: #171c24; --ink: #e3e8ef; --soft: #9aa7b8; --rule: #39424f; --mark: #6cb2ee;
    --bad: #f5b79f; --bad-ground: #3a1f17;
  }
}
* { box-sizing: border-box; }
body {
  margin: 0 auto; padding: 1.25rem 1rem 3rem; max-width: 72rem; background: var(--ground); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: anywhere;
}
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0 0 .75rem; }
h2 { font-size: 1.1rem; margin: 2rem 0 .6rem; }
p { margin: .4rem 0; max-width: 46rem; }
.warning {
  background: var(--bad-ground); color: var(--bad); border-left: 4px solid currentColor; border-radius: 4px;
  padding: .6rem .9rem; margin: .75rem 0; max-width: none;
}
.tiles { display: flex; flex-wrap: wrap; gap: .75rem; margin: 1.1rem 0; }
.tiles div, figure, .scroll {
  background: var(--card); border: 1px solid var(--rule); border-radius: 8px;
}
.tiles div { padding: .6rem .8rem; flex: 1 1 8.5rem; display: flex; flex-direction: column; }
.tiles b { margin-top: auto; }
.tiles span { display: block; color: var(--soft); font-size: .85rem; }
.tiles b { font-size: 1.45rem; font-weight: 600; font-variant-numeric: tabular-nums; overflow-wrap: normal; }
.tiles .first b { color: var(--mark); }
.figures { display: flex; flex-wrap: wrap; gap: .75rem; }
figure { margin: 0; padding: .5rem; flex: 1 1 20rem; display: flex; align-items: center; justify-content: center; }
figure img { display: block; max-width: min(100%, 34rem); height: auto; }
figure.wide { flex-basis: 100%; overflow-x: auto; justify-content: safe center; }
figure.wide img { width: 52rem; max-width: none; }
.tables { columns: 28rem 2; column-gap: .75rem; }
.scroll { overflow-x: auto; break-inside: avoid; margin-bottom: .75rem; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding: .6rem .8rem .2rem; }
th, td { text-align: right; padding: .3rem .8rem; border-top: 1px solid var(--rule); vertical-align: top; }
tr:first-child > * { border-top: 0; }
th { font-weight: 500; color: var(--soft); }
th:first-child, td:first-child, table.facts td { text-align: left; }
.metrics th, .metrics td { overflow-wrap: normal; }
.metrics td:nth-child(2) { font-weight: 600; }
.facts th { width: 12rem; }
@media (max-width: 30rem) {
  body { padding: 1rem .75rem 2rem; }
  th, td { padding: .3rem .5rem; }
  .facts th { width: 40%; }
}
</style>
</head>
"""
"""Of any report: a template with $title."""

PAGE = Template(
    HEAD
    + """<body>
<h1>$title</h1>
$summary
$warnings
<div class="tiles">
$tiles
</div>
<div class="figures">
$figures
</div>
$regret
<h2>Metrics</h2>
<div class="tables">
$metrics
</div>
<h2>Configuration and provenance</h2>
<div class="tables">
$facts
</div>
</body>
</html>
"""
)
