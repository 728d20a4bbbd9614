import type { Json, StoreChange, StoredRecord } from 'spillway';

/** Messages of a topic that are kept: a reader further behind has lost the oldest. */
export const ringSize = 1_024;

/** Lifetime of a message, in milliseconds. */
const keepMs = 60_000;

/** The record that counts a topic's messages. */
export function headName(topic: string): string {
  return `channel/${topic}`;
}

/** Number of messages that the topic has had. */
export function headCount(record: StoredRecord | undefined): number {
  return Number(record?.value ?? 0);
}

/** The records of the messages from `first` up to, not including, `end`. */
export function slotNames(topic: string, first: number, end: number): string[] {
  return Array.from({ length: end - first }, (_, at) => slotName(topic, first + at));
}

/** Changes that append the messages, unless another process has appended meanwhile. */
export function appending(
  topic: string,
  messages: readonly Uint8Array[],
  head: { readonly count: number; readonly version: number },
): StoreChange[] {
  const slots = messages.map((bytes, at) => {
    const number = head.count + at;
    const value: Json = [number, Buffer.from(bytes).toString('base64')];
    return { name: slotName(topic, number), value, ttlMs: keepMs };
  });
  const value = head.count + messages.length;
  return [{ name: headName(topic), ifVersion: head.version, value }, ...slots];
}

/** The message with this number; undefined if a later one has taken its place, or it expired. */
export function messageIn(
  record: StoredRecord | undefined,
  number: number,
): Uint8Array | undefined {
  const [found, text] = (record?.value ?? []) as readonly [number?, string?];
  return found === number && text !== undefined ? Buffer.from(text, 'base64') : undefined;
}

function slotName(topic: string, number: number): string {
  return `channel/${topic}/${number % ringSize}`;
}
