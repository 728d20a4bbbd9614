import assert from 'node:assert/strict';

/** A family as it was read back. */
export interface ReadFamily {
  readonly type: string;
  readonly help: string;
  /** By name and labels as written, `name{a="b"}`. */
  readonly samples: Map<string, number>;
}

const metricName = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/;
const sampleLine = /^([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)$/;
const labelPair = /([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|$)/y;

/** Reads Prometheus text 0.0.4 and fails on anything that is not exactly so. */
export function readExposition(text: string): Map<string, ReadFamily> {
  assert.ok(text.endsWith('\n'), 'the last line ends as well');
  const families = new Map<string, ReadFamily>();
  let current: { name: string; family: ReadFamily } | undefined;
  const lines = text.slice(0, -1).split('\n');
  for (let at = 0; at < lines.length; at += 1) {
    const line = lines[at] as string;
    if (line.startsWith('# ')) {
      const [, helped, help = ''] = /^# HELP (\S+) (.+)$/.exec(line) ?? [];
      assert.ok(!/\\(?![\\n])/.test(help), `escapes in: ${line}`);
      if (helped !== undefined) at += 1;
      const [, name = '', type = ''] = /^# TYPE (\S+) (\S+)$/.exec(lines[at] as string) ?? [];
      assert.match(name, metricName);
      assert.equal(helped ?? name, name, 'the type follows the help');
      assert.ok(['counter', 'gauge', 'histogram'].includes(type), `type ${type}`);
      assert.ok(!families.has(name), `${name} comes twice`);
      assert.equal(type === 'counter', name.endsWith('_total'), `the name of ${type} ${name}`);
      current = { name, family: { type, help, samples: new Map() } };
      families.set(name, current.family);
      continue;
    }
    const [, name = '', labels = '', value = ''] = sampleLine.exec(line) ?? [];
    assert.ok(current !== undefined, `nothing announced ${line}`);
    const suffix = name.slice(current.name.length);
    const suffixes = current.family.type === 'histogram' ? ['_bucket', '_sum', '_count'] : [''];
    assert.ok(name.startsWith(current.name) && suffixes.includes(suffix), `strange: ${line}`);
    checkLabels(labels, current.family.type);
    assert.match(value, /^(NaN|[+-]Inf|-?\d+(\.\d+)?(e[+-]?\d+)?)$/, line);
    const key = line.slice(0, line.lastIndexOf(' '));
    assert.ok(!current.family.samples.has(key), `twice: ${key}`);
    current.family.samples.set(key, Number(value.replace('Inf', 'Infinity')));
  }
  return families;
}

function checkLabels(labels: string, type: string): void {
  const names: string[] = [];
  labelPair.lastIndex = 0;
  while (labelPair.lastIndex < labels.length) {
    const pair = labelPair.exec(labels);
    assert.ok(pair !== null, `labels: ${labels}`);
    names.push(pair[1] as string);
  }
  assert.equal(new Set(names).size, names.length, `a label twice: ${labels}`);
  assert.ok(type === 'histogram' || !names.includes('le'), labels);
  assert.ok(!names.includes('quantile'), 'only summaries have that label');
}
