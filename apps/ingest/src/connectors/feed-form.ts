import type { Item } from './page.ts';

/** A trade of a feed. */
export interface FeedTrade {
  /** The name of the product in the feed. */
  readonly symbol: string;
  /** The trade as the REST API of the exchange writes it. */
  readonly trade: unknown;
}

/** The content of one message; empty for a message that is not needed. */
export interface FeedNews {
  readonly trades?: readonly FeedTrade[] | undefined;
  /** The newest id of a product, announced without its trade. */
  readonly head?: { readonly symbol: string; readonly id: number } | undefined;
  /** Symbols that are subscribed now; 'all' for all requested ones. */
  readonly subscribed?: readonly string[] | 'all' | undefined;
  /** Reason why a subscription was refused. */
  readonly refusal?: string | undefined;
  /** The server is about to close the connection. */
  readonly isLeaving?: boolean | undefined;
}

/** The protocol of an exchange's WebSocket feed. */
export interface FeedForm {
  readonly url: string;
  /** Maps the feed's symbols to products. */
  symbols(products: readonly string[], signal: AbortSignal): Promise<ReadonlyMap<string, string>>;
  subscribe(symbols: readonly string[]): object;
  /** A message that the server answers, for feeds that are silent while nothing is traded. */
  readonly ping?: object | undefined;
  /** Reads a message; throws for a trade of another form than documented. */
  read(text: string): FeedNews;
  /** Reads a trade in the form of the REST API; throws for one that breaks a rule. */
  line(trade: unknown): Item;
  /** Returns price, quantity and side as one text, to compare feed and REST. */
  facts(trade: unknown): string;
}

/** The feed as a source declares it. */
export interface FeedDeclaration extends Pick<FeedForm, 'subscribe' | 'ping' | 'read'> {
  readonly address: string;
  /** Path of the feed below another base URL of the API. */
  readonly path: string;
  /** Maps symbols to products by the answer of the product list. @default symbols are products */
  readonly symbolsIn?:
    | ((body: unknown, products: readonly string[]) => ReadonlyMap<string, string>)
    | undefined;
}
