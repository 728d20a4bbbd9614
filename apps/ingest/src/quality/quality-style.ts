/** How the report looks: dark where the reader's machine is dark, plain on paper. */
export const qualityStyle = `
:root { color-scheme: light dark; --ground: #ffffff; --text: #1b2430; --muted: #566273;
  --rule: #d9dfe7; --track: #eef1f5; --plain: #2f6fb3; --good: #1f7a4d; --attention: #8a6d00;
  --warning: #b45309; --critical: #b42318; }
@media (prefers-color-scheme: dark) { :root { --ground: #12171e; --text: #e6ebf2;
  --muted: #9aa7b8; --rule: #2c3643; --track: #1d2530; --plain: #6aa5e0; --good: #4fbf8b;
  --attention: #d9b93b; --warning: #f09a4b; --critical: #f47d72; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--text);
  font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1040px; margin: 0 auto; padding: 24px 20px 60px; }
h1 { font-size: 26px; margin: 0 0 4px; } h2 { font-size: 18px; margin: 36px 0 10px; }
.muted { color: var(--muted); margin: 0; }
.figures { display: flex; flex-wrap: wrap; gap: 12px; margin: 20px 0 0; }
.figures div { border: 1px solid var(--rule); border-radius: 8px; padding: 10px 16px; }
.figures dt { color: var(--muted); font-size: 13px; }
.figures dd { margin: 0; font-size: 22px; font-variant-numeric: tabular-nums; }
.figures .score { border-width: 2px; }
.score.good { border-color: var(--good); } .score.warning { border-color: var(--warning); }
.score.critical { border-color: var(--critical); }
progress { width: 150px; }
table { border-collapse: collapse; width: 100%; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: 5px 14px 5px 0; border-bottom: 1px solid var(--rule);
  white-space: nowrap; font-weight: normal; }
thead th { color: var(--muted); font-size: 13px; }
.number { text-align: right; }
.wide { overflow-x: auto; }
.badge { border: 1px solid currentColor; border-radius: 10px; padding: 0 8px; font-size: 13px; }
.badge.good { color: var(--good); } .badge.attention { color: var(--attention); }
.badge.warning { color: var(--warning); } .badge.critical { color: var(--critical); }
svg { display: block; width: 100%; height: auto; max-width: 720px; }
svg text { fill: var(--text); font: 13px system-ui, sans-serif; }
rect.track { fill: var(--track); } rect.plain { fill: var(--plain); }
rect.good { fill: var(--good); } rect.attention { fill: var(--attention); }
rect.warning { fill: var(--warning); } rect.critical { fill: var(--critical); }
line.rule { stroke: var(--rule); }
@media print { .wide { overflow: visible; } }
`;
