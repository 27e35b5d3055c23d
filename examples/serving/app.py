"""An exported model behind FastAPI: MODEL=model.onnx uvicorn app:app"""

import os
from typing import Annotated

import numpy as np
from fastapi import Body, FastAPI, HTTPException

from softpnet import runtime

model = runtime.load(os.environ["MODEL"])
app = FastAPI(title=model.task)


@app.post("/read")
def read(inputs: Annotated[list, Body()]):  # examples [N, n, *shape]
    try:
        found = model.predict(np.array(inputs, model.input_type))  # JSON says 1 for 1.0
    except ValueError as error:  # as every InputError is
        raise HTTPException(422, str(error)) from error
    labels = None if found.labels is None else found.labels.tolist()
    return {"concepts": model.names(found.concepts), "labels": labels}
