/** An entry of the log; what is absent in it equals null. */
export type Entry = Readonly<Record<string, unknown>>;

type Test = (entry: Entry) => boolean;

const expressionMax = 500;
/** Python and Perl write them at the beginning of an expression. */
const leadingFlags = /^\(\?([ims]+)\)/;

/** Says of entries whether a query like those of MongoDB matches them; throws for what is none. */
export function entryMatch(query: unknown): Test {
  const tests = entriesOf(query).map(([key, value]): Test => {
    if (key === '$and') return every(list(value).map(entryMatch));
    if (key === '$or') return some(list(value).map(entryMatch));
    if (key === '$nor') return not(some(list(value).map(entryMatch)));
    if (key.startsWith('$')) throw new TypeError(`${key} is not known`);
    return field(key, value);
  });
  return every(tests);
}

function field(key: string, value: unknown): Test {
  if (typeof value !== 'object' || value === null) return equal(key, value);
  const { $regex, $options, ...rest } = value as Record<string, unknown>;
  const tests = entriesOf(rest).map(([name, operand]) => operator(key, name, operand));
  if ($regex !== undefined) tests.push(expression(key, $regex, $options ?? ''));
  else if ($options !== undefined) throw new TypeError('$options needs a $regex');
  if (tests.length === 0) throw new TypeError('an operator is needed');
  return every(tests);
}

function operator(key: string, name: string, operand: unknown): Test {
  if (name === '$eq') return equal(key, operand);
  if (name === '$ne') return not(equal(key, operand));
  if (name === '$in') return some(list(operand).map((one) => equal(key, one)));
  if (name === '$nin') return not(some(list(operand).map((one) => equal(key, one))));
  if (name === '$not') return not(field(key, entriesOf(operand) && operand));
  if (name === '$exists') return operand ? not(equal(key, null)) : equal(key, null);
  return order(key, name, operand);
}

function order(key: string, name: string, operand: unknown): Test {
  if (!(typeof operand === 'string' || typeof operand === 'number')) throw new TypeError(name);
  const within = (value: string | number) => {
    if (name === '$gt') return value > operand;
    if (name === '$gte') return value >= operand;
    if (name === '$lt') return value < operand;
    if (name === '$lte') return value <= operand;
    throw new TypeError(`${name} is not known`);
  };
  within(operand);
  return (entry) => typeof entry[key] === typeof operand && within(entry[key] as string | number);
}

function expression(key: string, source: unknown, options: unknown): Test {
  if (typeof source !== 'string' || source.length > expressionMax) throw new TypeError('$regex');
  if (typeof options !== 'string' || !/^[ims]*$/.test(options)) throw new TypeError('$options');
  const [lead = '', inline = ''] = leadingFlags.exec(source) ?? [];
  const flags = [...new Set(options + inline)].join('');
  const pattern = new RegExp(source.slice(lead.length), flags);
  return (entry) => typeof entry[key] === 'string' && pattern.test(entry[key] as string);
}

function equal(key: string, value: unknown): Test {
  if (typeof value === 'object' && value !== null) throw new TypeError('a value is needed');
  return (entry) => (entry[key] ?? null) === value;
}

function every(tests: readonly Test[]): Test {
  return (entry) => tests.every((test) => test(entry));
}

function some(tests: readonly Test[]): Test {
  return (entry) => tests.some((test) => test(entry));
}

function not(test: Test): Test {
  return (entry) => !test(entry);
}

function list(value: unknown): readonly unknown[] {
  if (!Array.isArray(value)) throw new TypeError('a list is needed');
  return value;
}

function entriesOf(value: unknown): [string, unknown][] {
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  if (!isObject) throw new TypeError('an object is needed');
  return Object.entries(value);
}
