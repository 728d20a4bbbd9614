/** The model that made a vector; vectors of different ones must never meet. */
export interface ModelName {
  /** Such as `Xenova/all-MiniLM-L6-v2`. */
  readonly id: string;
  /** How its weights are stored, such as `int8`: two precisions give different vectors. */
  readonly precision: string;
  /** How many numbers a vector has. */
  readonly dimension: number;
}

/** What is embedded. */
export interface ArticleText {
  readonly title: string;
  readonly text: string;
}

/** An article as vectors, each of length 1 (or 0 when there was nothing to embed). */
export interface EmbeddedDocument {
  readonly model: ModelName;
  /** How many words the whole text has, also those that were not embedded. */
  readonly words: number;
  /** The vectors of the first sentences, one after another. */
  readonly sentences: Float32Array;
  /** The direction of the mean of all sentences. */
  readonly mean: Float32Array;
  /** The title; the lead when there is no title. */
  readonly title: Float32Array;
  /** The direction of the mean of the title and the first sentences. */
  readonly lead: Float32Array;
}

/** An article that can be scored. Times are milliseconds since 1970. */
export interface Article {
  readonly id: string;
  /** Where it is from: its host. */
  readonly source: string;
  /** When it was published, if known. */
  readonly publishedAt: number | undefined;
  readonly document: EmbeddedDocument;
}

/** An article and what its reader thinks of it. */
export interface RatedArticle extends Article {
  /** From 1 to 10. */
  readonly score: number;
  readonly ratedAt: number;
}

/** Every vector of the document as it is without any text: all of them zero. */
export function emptyDocument(model: ModelName): EmbeddedDocument {
  const zero = new Float32Array(model.dimension);
  const sentences = new Float32Array(0);
  return {
    model,
    words: 0,
    sentences,
    mean: zero,
    title: zero,
    lead: zero,
  };
}

/** Whether the vectors of the two can be compared. */
export function isSameModel(one: ModelName, other: ModelName): boolean {
  const { id, precision, dimension } = one;
  return id === other.id && precision === other.precision && dimension === other.dimension;
}
