import assert from 'node:assert/strict';
import type { ModelName } from '../learn/document.ts';
import type { Choice } from '../learn/model.ts';
import type { TasteRow } from './ranker-schema.ts';
import { Records } from './records.ts';
import { checksumOf, modelText } from './vectors.ts';

/** The trained choices of each user, and the numbers set aside for versions of their tastes. */
export class TrainedTastes extends Records {
  /** Sets numbers aside that no version had, also before a crash; gives the last of them. */
  async reserve(userId: string, count: number, signal?: AbortSignal): Promise<number> {
    const none = new Uint8Array(0);
    const unknown = { model: '', data: none, checksum: checksumOf(none), saved_at: 0 };
    const query = this.kysely
      .insertInto('tastes')
      .values({ user_id: userId, reserved: count, ...unknown })
      .onConflict((conflict) =>
        conflict.column('user_id').doUpdateSet(({ eb }) => {
          return { reserved: eb('tastes.reserved', '+', count) };
        }),
      )
      .returning('reserved');
    const [result] = await this.fenced.batch([query.compile()], { signal });
    const [row] = (result?.rows ?? []) as Pick<TasteRow, 'reserved'>[];
    return row?.reserved ?? assert.fail('the row is there');
  }

  /** Keeps a choice made on vectors of a model, for a user whose numbers were set aside. */
  async save(userId: string, model: ModelName, choice: Choice, at: number): Promise<void> {
    // JSON has no Infinity: a penalty of null leaves its part out.
    const data = Buffer.from(JSON.stringify({ format: 2, ...choice }));
    const query = this.kysely
      .updateTable('tastes')
      .set({ model: modelText(model), data, checksum: checksumOf(data), saved_at: at })
      .where('user_id', '=', userId);
    await this.fenced.batch([query.compile()], {});
  }

  /** Undefined if there is nothing of this model, or nothing whole: it can be trained again. */
  async find(userId: string, model: ModelName, signal?: AbortSignal): Promise<Choice | undefined> {
    const row = await this.kysely
      .selectFrom('tastes')
      .select(['data', 'checksum'])
      .where('user_id', '=', userId)
      .where('model', '=', modelText(model))
      .executeTakeFirst({ signal });
    if (row === undefined || row.checksum !== checksumOf(row.data)) return undefined;
    return choiceOf(Buffer.from(row.data).toString());
  }
}

/** Choices of older versions begin with a number in bytes, and are made again. */
function choiceOf(text: string): Choice | undefined {
  if (!text.startsWith('{"format":2,')) return undefined;
  const { topic, words, slope, width } = JSON.parse(text);
  return { topic: topic ?? Infinity, words: words ?? Infinity, slope, width };
}
