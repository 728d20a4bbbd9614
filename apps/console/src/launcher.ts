/** The first login of a service, which nobody can ask for again. */
export interface Login {
  readonly service: string;
  readonly user: string;
  readonly secret: string;
}

/**
 * The program that started the console and the services beside it, as `npm start` does: it is at
 * the other end of this process's channel.
 */
export class Launcher {
  /** True once the program has said that it is there. */
  isThere = false;
  /** True while demo traffic runs. */
  isDemo = false;
  /** First logins that nobody has confirmed to have seen. */
  logins: readonly Login[] = [];

  constructor() {
    process.on('message', (sent: { readonly demo?: boolean; readonly login?: Login }) => {
      this.isThere = true;
      if (sent.demo !== undefined) this.isDemo = sent.demo;
      if (sent.login !== undefined) this.logins = [...this.logins, sent.login];
    });
  }

  setDemo(demo: boolean): void {
    process.send?.({ demo });
  }

  forgetLogins(): void {
    this.logins = [];
  }
}
