import { randomUUID } from 'node:crypto';
import { rankerError } from '../errors.ts';
import { clean } from './articles.ts';
import { counted, Records } from './records.ts';

/** The parts of an article that a rule may look at. */
export const ruleFields = ['source', 'feed', 'author', 'tag', 'words', 'pattern'] as const;
export type RuleField = (typeof ruleFields)[number];

/** Mutes or boosts articles. */
export interface NewRule {
  readonly kind: 'mute' | 'boost';
  readonly field: RuleField;
  /** The host, feed, author, tag or words, or the source of a regular expression; 1 to 200 long. */
  readonly value: string;
  /** Points that a boost adds to the score, from -9 to 9; 0 for a mute. */
  readonly points: number;
}

export interface ReaderRule extends NewRule {
  readonly id: string;
}

/** The most rules of a user: each is tried on every article of a list. */
const rulesMax = 500;

/** The users' mutes and boosts. */
export class Rules extends Records {
  /** In the order in which they were made. */
  async list(userId: string, signal?: AbortSignal): Promise<ReaderRule[]> {
    const rows = await this.kysely
      .selectFrom('rules')
      .selectAll()
      .where('user_id', '=', userId)
      .orderBy('created_at')
      .orderBy('id')
      .execute({ signal });
    return rows.map(({ id, kind, field, value, points }) => {
      const known = { kind, field } as Pick<ReaderRule, 'kind' | 'field'>;
      return { id, ...known, value, points };
    });
  }

  async add(userId: string, rule: NewRule, at: number, signal?: AbortSignal): Promise<string> {
    const { kysely } = this;
    const { count } = await kysely
      .selectFrom('rules')
      .select(counted)
      .where('user_id', '=', userId)
      .executeTakeFirstOrThrow({ signal });
    if (count >= rulesMax) {
      throw rankerError('RULES_FULL', `there are ${rulesMax} rules already; remove one first`);
    }
    const { kind, field, value, points } = rule;
    const id = randomUUID();
    await kysely
      .insertInto('rules')
      .values({ id, user_id: userId, kind, field, value: clean(value), points, created_at: at })
      .execute({ signal });
    return id;
  }

  /** Rejects with `RECORD_UNKNOWN` if there is no such rule. */
  async remove(userId: string, id: string, signal?: AbortSignal): Promise<void> {
    const { numDeletedRows } = await this.kysely
      .deleteFrom('rules')
      .where('user_id', '=', userId)
      .where('id', '=', id)
      .executeTakeFirst({ signal });
    if (numDeletedRows === 0n) throw rankerError('RECORD_UNKNOWN', `there is no rule ${id}`);
  }
}
