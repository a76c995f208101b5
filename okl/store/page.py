"""The frame and the looks of any report: one self-contained page, which may load nothing from anywhere."""

from __future__ import annotations

from string import Template

STYLE = """
:root {
  --ground: #f4f6f9; --card: #ffffff; --ink: #1c2430; --soft: #566272; --rule: #d8dee6; --bar: #9cc3e4; --mark: #1a649f;
  --bad: #8c2f17; --bad-ground: #fdeee8;
}
@media screen and (prefers-color-scheme: dark) {
  :root {
    --ground: #0f131a; --card: #171c24; --ink: #e3e8ef; --soft: #a3afbf; --rule: #39424f; --bar: #35618a;
    --mark: #6cb2ee; --bad: #f5b79f; --bad-ground: #3a1f17;
  }
}
* { box-sizing: border-box; }
html { -webkit-text-size-adjust: 100%; text-size-adjust: 100%; }
body {
  margin: 0 auto; padding: 1.25rem 1rem 3rem; max-width: 74rem; background: var(--ground); color: var(--ink);
  font: 1rem/1.5 system-ui, sans-serif; overflow-wrap: break-word;
}
h1 { font-size: 1.6rem; line-height: 1.2; margin: 0 0 .6rem; }
h2 { font-size: 1.25rem; line-height: 1.3; margin: 2.4rem 0 .5rem; scroll-margin-top: 1rem; }
h3 { font-size: 1.05rem; margin: 1.4rem 0 .3rem; }
p { margin: .45rem 0; max-width: 44rem; }
a { color: var(--mark); }
nav { margin: 1rem 0 0; font-size: .92rem; display: flex; flex-wrap: wrap; gap: .15rem 1.1rem; }
nav a { padding: .25rem 0; }
.warning {
  background: var(--bad-ground); color: var(--bad); border-left: 4px solid currentColor; border-radius: 4px;
  padding: .6rem .9rem; margin: .75rem 0; max-width: none;
}
.tiles { display: grid; grid-template-columns: repeat(auto-fill, minmax(10.5rem, 1fr)); gap: .75rem; margin: .9rem 0; }
.tiles div, figure, .scroll, details, pre {
  background: var(--card); border: 1px solid var(--rule); border-radius: 8px;
}
.tiles div { padding: .6rem .8rem; display: flex; flex-direction: column; }
.tiles span { color: var(--soft); font-size: .875rem; line-height: 1.35; }
.tiles b {
  margin-top: auto; padding-top: .15rem; font-size: 1.4rem; line-height: 1.3; font-weight: 600;
  font-variant-numeric: tabular-nums; overflow-wrap: normal;
}
.tiles div:first-child b { color: var(--mark); }
.row, .figures, .tables {
  display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 30rem), 1fr)); align-items: start;
  gap: .75rem; margin: .75rem 0;
}
.row > *, .figures > *, .tables > * { min-width: 0; margin: 0; }
.row > .wide, .figures > .wide { grid-column: 1 / -1; }
figure { margin: 0; padding: .7rem .8rem .8rem; }
figcaption { font-size: .92rem; color: var(--soft); line-height: 1.4; margin-bottom: .4rem; }
figcaption b, caption b { display: block; color: var(--ink); font-weight: 600; font-size: 1rem; }
figure img { display: block; width: 100%; max-width: 34rem; height: auto; margin: 0 auto; }
figure.wide { overflow-x: auto; }
figure.wide img { min-width: 40rem; max-width: 60rem; }
.scroll { overflow-x: auto; break-inside: avoid; }
table { border-collapse: collapse; width: 100%; font-size: .92rem; font-variant-numeric: tabular-nums; }
caption { text-align: left; padding: .7rem .8rem .35rem; color: var(--soft); font-size: .92rem; line-height: 1.4; }
th, td { text-align: right; padding: .32rem .8rem; border-top: 1px solid var(--rule); vertical-align: top; }
tr:first-child > * { border-top: 0; }
tr:first-child th[scope=col] { vertical-align: bottom; }
th { font-weight: 500; color: var(--soft); }
th:first-child, td:first-child, table.facts td { text-align: left; }
caption span { display: inline-block; position: sticky; left: .8rem; max-width: min(44rem, calc(100vw - 3.5rem)); }
.metrics td { white-space: nowrap; }
.words td { text-align: left; white-space: normal; }
.metrics th, .metrics td { overflow-wrap: normal; }
.ours td:nth-child(2) { font-weight: 600; }
.facts th { width: 14rem; }
.facts td { overflow-wrap: anywhere; }
.bars { margin-bottom: .5rem; }
.bars th, .bars td { border-top: 0; vertical-align: middle; }
.bars th { min-width: 7rem; }
.bars td:nth-child(2) { width: 50%; padding: 0; }
.bars i { display: block; height: 1.1rem; border-radius: 0 3px 3px 0; background: var(--mark); }
.bars i.weak { background: var(--bar); }
.bars td:last-child { text-align: left; white-space: nowrap; }
.bars.long tr { display: grid; grid-template-columns: minmax(0, 1fr) 11rem; }
.bars.long th { grid-column: 1 / -1; padding-bottom: 0; }
.bars.long td:nth-child(2) { width: auto; padding: .1rem 0 .3rem .8rem; }
.bars.long td:last-child { padding-top: 0; }
details { margin: .6rem 0; break-inside: avoid-page; }
details .scroll { border: 0; border-radius: 0 0 8px 8px; }
details caption { display: none; }
summary { cursor: pointer; padding: .6rem .8rem; font-weight: 600; }
summary span { color: var(--soft); font-weight: 400; }
pre { margin: .3rem 0 .8rem; padding: .6rem .8rem; overflow-x: auto; font: .875rem/1.5 ui-monospace, monospace; }
@media (max-width: 40rem) {
  body { padding: 1rem .75rem 2rem; }
  h1 { font-size: 1.4rem; }
  h2 { margin-top: 2rem; }
  .tiles { grid-template-columns: repeat(2, minmax(0, 1fr)); gap: .5rem; }
  .tiles b { font-size: 1.2rem; }
  .row, .figures, .tables { gap: .6rem; }
  figure { padding: .6rem .5rem; }
  figcaption { padding: 0 .2rem; }
  th, td { padding: .32rem .5rem; }
  caption, summary { padding-left: .5rem; padding-right: .5rem; }
  table { font-size: .875rem; }
  .bars.long td:nth-child(2) { padding-left: .5rem; }
  .facts th { width: 40%; }
  pre { white-space: pre-wrap; overflow-wrap: anywhere; }
}
@media print {
  * { print-color-adjust: exact; -webkit-print-color-adjust: exact; }
  :root { --ground: #ffffff; }
  body { padding: 0; max-width: none; font-size: 10pt; }
  nav { display: none; }
  h2 { break-after: avoid; }
  figure, .tiles div, tr { break-inside: avoid; }
  .row { grid-template-columns: 1fr 1fr; }
  .scroll { overflow: visible; break-inside: auto; }
  pre { white-space: pre-wrap; }
  details::details-content { content-visibility: visible; display: block; }
}
"""

HEAD = (
    """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<title>$title</title>
<style>"""
    + STYLE
    + """</style>
</head>
"""
)

PAGE = Template(
    HEAD
    + """<body>
<header>
<h1>$title</h1>
$lead
$contents
</header>
<main>
$sections
</main>
</body>
</html>
"""
)
