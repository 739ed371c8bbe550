//! Orders to read the configuration again.

use crate::Reloads;
use std::sync::Arc;

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().expect("a runtime").block_on(work)
}

#[test]
fn an_order_waits_for_its_result() {
    run(async {
        let reloads = Arc::new(Reloads::default());
        assert_eq!(reloads.order().await, Ok(()), "nobody takes orders");
        let mut orders = reloads.accept();
        for result in [Ok(()), Err("line 1".to_owned())] {
            let answer = async {
                let order = orders.recv().await.expect("an order");
                order.done(result.clone());
            };
            let (ordered, ()) = tokio::join!(reloads.order(), answer);
            assert_eq!(ordered, result);
        }
        drop(orders);
        assert!(reloads.order().await.is_err(), "the gateway ends");
    });
}
