/** The longest address, title and text that are taken, in characters. */
export const urlMax = 4_096;
export const titleMax = 1_000;
export const textMax = 1_000_000;
/** The longest body of many items, in bytes, and how many there may be. */
export const bodyBytesMax: number = 4 * 1_048_576;
export const itemsMax = 1_000;

/** Rules for values of requests, in the words of JSON Schema. */
export const urlSchema: object = { type: 'string', minLength: 1, maxLength: urlMax };
export const scoreSchema: object = { type: 'number', minimum: 1, maximum: 10 };

/** An address, or a text with or without a title. */
export const itemSchema: Record<string, unknown> & { readonly properties: object } = {
  type: 'object',
  properties: {
    url: urlSchema,
    text: { type: 'string', minLength: 1, maxLength: textMax },
    title: { type: 'string', maxLength: titleMax },
  },
  additionalProperties: false,
};

/** The same with what its reader thinks of it. */
export const ratedItemSchema: object = {
  ...itemSchema,
  required: ['score'],
  properties: { ...itemSchema.properties, score: scoreSchema },
};

/** The body of a request about one article. */
export interface ItemBody {
  readonly url?: string;
  readonly text?: string;
  readonly title?: string;
}

/** The id of an article, a feed or a rule. */
export const nameSchema: object = { type: 'string', pattern: '^[\\w-]{1,64}$' };
/** The id in a path. */
export const idSchema: object = { type: 'object', properties: { id: nameSchema } };

/** A route whose path has an id. */
export interface IdInPath {
  readonly Params: { readonly id: string };
}
