import assert from 'node:assert/strict';
import type { Migration } from '../migrate.ts';
import { decisionMigration } from './decision-schema.ts';

/** The SQL function of `decisionMigration`, with parts of its text replaced. */
function changed(name: string, ...parts: readonly (readonly [string, string])[]): string {
  const create = `create function ${name}(`;
  const statements = decisionMigration.statements as readonly string[];
  const old = statements.find((statement) => statement.startsWith(create));
  assert(old, `decisionMigration has no function ${name}`);
  return parts.reduce(
    (text, [from, to]) => {
      assert(text.split(from).length === 2, `${name} must have this text once: ${from}`);
      return text.replace(from, to);
    },
    old.replace('create function', 'create or replace function'),
  );
}

/** Returns if a field is missing: in SQL a row is `not null` only if every field is. */
const leaveUnknown = 'if (s is not null) is false then return; end if;';
const begin = ['\nbegin\n', `\nbegin\n  ${leaveUnknown}\n`] as const;
const unanswered =
  'select null::jsonb as answer, null::jsonb as next, null::double precision as ttl into decided;';
const isList = "coalesce(jsonb_typeof(value), 'array') = 'array'";

/**
 * The decisions give no answer about a record of another form, and leave it unchanged. Before, a
 * field that another version had left out was null: a bucket without its next slot gave out a burst
 * at every call. A decision with an unknown name has no answer either.
 */
export const guardMigration: Migration = {
  number: 7,
  name: 'no answer about records of other versions',
  statements: [
    changed('spillway_bucket_reserve', begin),
    changed('spillway_bucket_slow', begin),
    changed('spillway_breaker_settle', [
      '  if not s.recent ? id then',
      `  ${leaveUnknown}\n  if not s.recent ? id then`,
    ]),
    changed(
      'spillway_store_apply',
      ["decisions[i] = 'rate/charge' then", `decisions[i] = 'rate/charge' and ${isList} then`],
      ['    else\n      select', "    elsif decisions[i] = 'breaker/settle' then\n      select"],
      [
        '    end if;\n    if decided.next',
        `    else ${unanswered}\n    end if;\n    if decided.next`,
      ],
    ),
  ],
};
