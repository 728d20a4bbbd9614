/** The longest address, title and text that are taken, in characters. */
export const urlMax = 4_096;
export const titleMax = 1_000;
export const textMax = 1_000_000;
/** The longest body of many items, in bytes, and how many there may be. */
export const bodyBytesMax = 4 * 1_048_576;
export const itemsMax = 1_000;

export const urlSchema = { type: 'string', minLength: 1, maxLength: urlMax } as const;
export const scoreSchema = { type: 'number', minimum: 1, maximum: 10 } as const;

const item = {
  url: urlSchema,
  text: { type: 'string', minLength: 1, maxLength: textMax },
  title: { type: 'string', maxLength: titleMax },
} as const;

/** An address, or a text with or without a title. */
export const itemSchema = {
  type: 'object',
  properties: item,
  additionalProperties: false,
} as const;

/** The same with what its reader thinks of it. */
export const ratedItemSchema = {
  type: 'object',
  required: ['score'],
  properties: { ...item, score: scoreSchema },
  additionalProperties: false,
} as const;

/** What the body of a request for one article may say of it. */
export interface ItemBody {
  readonly url?: string;
  readonly text?: string;
  readonly title?: string;
}
