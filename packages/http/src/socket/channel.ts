/** What a subscriber of a {@link Channel} wants to hear. */
export interface ChannelListener {
  /** Called for each message, in the order in which the channel took them. */
  message(bytes: Uint8Array): void;
  /** Messages were lost for this subscriber: how many, or undefined when nobody can know. */
  lost(count: number | undefined): void;
}

/**
 * Carries messages between the instances of a service: at most once, and whoever misses some is
 * told. Publishers hear their own messages too.
 */
export interface Channel {
  /** Resolves when the message is on its way to everybody; rejects when it may not be. */
  publish(topic: string, bytes: Uint8Array, signal?: AbortSignal): Promise<void>;
  /** Once it resolves, every later message is heard or told to be lost; disposing it ends that. */
  subscribe(topic: string, listener: ChannelListener, signal?: AbortSignal): Promise<Disposable>;
}
