/** Callbacks of a subscriber of a {@link Channel}. */
export interface ChannelListener {
  /** Called for each message, in the order in which the channel took them. */
  message(bytes: Uint8Array): void;
  /** Called with the number of messages lost for this subscriber, or undefined if unknown. */
  lost(count: number | undefined): void;
}

/**
 * Carries messages between the instances of a service: at most once. A subscriber that misses
 * messages is told so. Publishers receive their own messages too.
 */
export interface Channel {
  /** Resolves when the message is on its way to everybody; rejects when it may not be. */
  publish(topic: string, bytes: Uint8Array): Promise<void>;
  /** Resolves once every later message is delivered or reported lost, until it is disposed. */
  subscribe(topic: string, listener: ChannelListener): Promise<Disposable>;
}
