import { StopSignal } from 'spillway-cli';

/** Hears Ctrl-C and SIGTERM while it is held: the first asks to stop, a second ends at once. */
export class Interruption extends StopSignal {
  constructor() {
    super({ first: 'what is complete is committed', left: () => 'What is committed stays.' });
  }
}
