/** Where `ingest exchange` listens, and where it is looked for, unless that is set otherwise. */
export const simulatedPort = 7071;
