/**
 * The newest store time that this process has seen, and the server's clock at that moment. Sent
 * with each call, so that store time never goes back for this process, also after a failover.
 */
export class SeenTime {
  now: number | undefined = undefined;
  wall: number | undefined = undefined;

  /** Notes an answer. Answers may overtake each other: an older one tells nothing new. */
  note(now: number, wall: number): void {
    if (now < (this.now ?? 0)) return;
    this.now = now;
    this.wall = wall;
  }
}
